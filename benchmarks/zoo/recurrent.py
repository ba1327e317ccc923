"""Recurrent layers, saved as people save them: with unroll=False."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.entry import BENCHMARK, collection

ENTRIES, zoo = collection("recurrent layers")
STEPS, CHANNELS = 10, 6


def _over_time(keras: Any, *stack: Any, classes: int = 4) -> Any:
    """A signal through the layers and a classifier on what is left of it."""
    return keras.Sequential([keras.Input((STEPS, CHANNELS)), *stack, keras.layers.Dense(classes, activation="softmax")])


@zoo("lstm")
def lstm(keras: Any) -> Any:
    """One LSTM and a classifier."""
    return _over_time(keras, keras.layers.LSTM(8))


@zoo("lstm-stacked", runs=BENCHMARK)
def lstm_stacked(keras: Any) -> Any:
    """Two LSTMs, the first of which returns the whole sequence."""
    return _over_time(keras, keras.layers.LSTM(8, return_sequences=True), keras.layers.LSTM(6))


@zoo("gru")
def gru(keras: Any) -> Any:
    """One GRU and a classifier."""
    return _over_time(keras, keras.layers.GRU(8))


@zoo("gru-reset-before", runs=BENCHMARK)
def gru_reset_before(keras: Any) -> Any:
    """A GRU in the style of Keras 1 that runs backwards and returns the whole sequence."""
    return _over_time(keras, keras.layers.GRU(6, reset_after=False, return_sequences=True, go_backwards=True))


@zoo("simple-rnn")
def simple_rnn(keras: Any) -> Any:
    """A simple recurrent layer (SimpleRNN)."""
    return _over_time(keras, keras.layers.SimpleRNN(8))


@zoo("bidirectional-lstm")
def bidirectional_lstm(keras: Any) -> Any:
    """An LSTM in each direction."""
    return _over_time(keras, keras.layers.Bidirectional(keras.layers.LSTM(6)))


@zoo("bidirectional-gru", runs=BENCHMARK)
def bidirectional_gru(keras: Any) -> Any:
    """A GRU in each direction; the sequences that they return are added."""
    layer = keras.layers.GRU(5, return_sequences=True)
    return _over_time(keras, keras.layers.Bidirectional(layer, merge_mode="sum"))


@zoo("rnn-of-cells")
def cells(keras: Any) -> Any:
    """keras.layers.RNN with stacked cells of three kinds."""
    layers = keras.layers
    stack = layers.StackedRNNCells([layers.LSTMCell(6), layers.GRUCell(6), layers.SimpleRNNCell(5)])
    return _over_time(keras, layers.RNN(stack, name="stack"))


@zoo("lstm-masked")
def lstm_masked(keras: Any) -> Any:
    """An LSTM that skips masked frames."""
    return _over_time(keras, keras.layers.Masking(name="mask"), keras.layers.LSTM(6, name="skipping"))


@zoo("lstm-states", runs=BENCHMARK)
def lstm_states(keras: Any) -> Any:
    """An encoder whose final state initializes a decoder."""
    layers = keras.layers
    source = keras.Input((8, 4), name="heard")
    _, hidden, cell = layers.LSTM(6, return_state=True)(source)
    follow = keras.Input((5, 3), name="said")
    decoded = layers.LSTM(6, return_sequences=True)(follow, initial_state=[hidden, cell])
    return keras.Model([source, follow], layers.Dense(3, activation="softmax")(decoded))


@zoo("lstm-unrolled", runs=BENCHMARK)
def lstm_unrolled(keras: Any) -> Any:
    """An LSTM built with unroll=True."""
    return _over_time(keras, keras.layers.LSTM(8, unroll=True))


@zoo("gru-dropout", runs=BENCHMARK)
def gru_dropout(keras: Any) -> Any:
    """A GRU with input dropout, recurrent dropout and non-default activations."""
    layer = keras.layers.GRU(
        8, dropout=0.2, recurrent_dropout=0.2, activation="relu", recurrent_activation="hard_sigmoid"
    )
    return _over_time(keras, layer)


@zoo("conv-lstm-1d", runs=BENCHMARK)
def conv_lstm_1d(keras: Any) -> Any:
    """A convolutional LSTM over lines."""
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((4, 8, 2)), layers.ConvLSTM1D(4, 3), layers.GlobalAveragePooling1D(), layers.Dense(3)]
    )


@zoo("conv-lstm-2d")
def conv_lstm_2d(keras: Any) -> Any:
    """A convolutional LSTM over frames."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((3, 8, 8, 2)),
            layers.ConvLSTM2D(4, 3, padding="same"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ]
    )


@zoo("conv-lstm-3d", runs=BENCHMARK)
def conv_lstm_3d(keras: Any) -> Any:
    """A convolutional LSTM over volumes."""
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((2, 4, 4, 4, 1)), layers.ConvLSTM3D(2, 3, name="volumes"), layers.Flatten(), layers.Dense(3)]
    )


@zoo("time-distributed-dense")
def time_distributed_dense(keras: Any) -> Any:
    """A dense layer applied to each frame."""
    layers = keras.layers
    return _over_time(keras, layers.TimeDistributed(layers.Dense(5, activation="relu")), layers.Flatten())


@zoo("time-distributed-cnn")
def time_distributed_cnn(keras: Any) -> Any:
    """A small CNN applied to each frame, followed by an LSTM."""
    layers = keras.layers
    frame = keras.Sequential(
        [
            keras.Input((10, 10, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(6, activation="relu"),
        ]
    )
    return keras.Sequential(
        [keras.Input((4, 10, 10, 1)), layers.TimeDistributed(frame), layers.LSTM(6), layers.Dense(3)]
    )


@zoo("stateful-gru", stateful=True, runs=BENCHMARK)
def stateful_gru(keras: Any) -> Any:
    """A stateful GRU that processes one frame at a time."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(batch_shape=(1, 1, 6)),
            layers.GRU(8, stateful=True, name="memory"),
            layers.Dense(4, activation="softmax"),
        ]
    )


@zoo("stateful-kws", stateful=True)
def stateful_kws(keras: Any) -> Any:
    """A keyword spotter (convolution and LSTM) that processes two frames of a spectrogram at a time."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(batch_shape=(1, 2, 10)),
            layers.Conv1D(8, 1, activation="relu"),
            layers.LSTM(8, stateful=True, name="memory"),
            layers.Dense(4, activation="softmax"),
        ]
    )
