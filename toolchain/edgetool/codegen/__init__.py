"""C, C++ and CMake files for the firmware, as text in memory."""
