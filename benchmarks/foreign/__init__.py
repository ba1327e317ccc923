"""Thirty networks in Keras, PyTorch, ONNX and float .tflite with the same weights: what edgetool makes of each.

python -m benchmarks.foreign.build FOLDER [NAME...]     writes the models (needs the extras torch and onnx)
python -m benchmarks.foreign convert FOLDER [NAME...]   converts them, and adds a row for each to results.csv
python -m benchmarks.foreign times FOLDER NAME...       compares CPU times with those of the importers (times.csv)
python -m benchmarks.foreign page                       writes the table of docs/conversion.md

A network is defined once, in networks.py, in terms of the layers that keras_layers.py and torch_layers.py write the way
users of each framework do. The ONNX model is what PyTorch exports, and the .tflite what TensorFlow makes of Keras.
"""
