"""Networks whose operators can run in many orders, with random weights: what the search for an order is measured on.

    python -m benchmarks.networks --work DIR [NAME...]

builds each in Keras and converts it to an int8 DIR/NAME.tflite, as `edgetool convert` would. Needs the extra `convert`.
"""

from __future__ import annotations

# Name -> module and function that build it, the smallest first. Keras is only imported by those modules.
NETWORKS: dict[str, tuple[str, str]] = {
    "mobilenet_025_128": ("mobilenet", "mobilenet_025_128"),
    "mobilenet_v2_035_96": ("mobilenet", "mobilenet_v2_035_96"),
    "mobilenet_v2_100_224": ("mobilenet", "mobilenet_v2_100_224"),
    "randwire_cifar": ("randwire", "cifar"),
    "randwire_deep": ("randwire", "deep"),
    "randwire_wide": ("randwire", "wide"),
    "darts_cifar": ("darts", "cifar"),
    "darts_imagenet": ("darts", "imagenet"),
    "randwire_imagenet": ("randwire", "imagenet"),
    "inception_192": ("inception", "inception_192"),
    "xception_299": ("xception", "xception_299"),
    "densenet121_224": ("densenet", "densenet121_224"),
    "nasnet_mobile_224": ("nasnet", "nasnet_mobile_224"),
}
