MY_MODEL_REQUIRE((MY_LIMIT) >= MY_SIZE, my_typedef,
    "my_subject my_needs " MY_MODEL_TEXT(MY_SIZE)
    " bytes, but MY_LIMIT is " MY_MODEL_TEXT(MY_LIMIT));
