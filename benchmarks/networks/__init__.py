"""Public architectures with random weights: what the searches for an order and for stripes are measured on.

    python -m benchmarks.networks --work DIR [NAME...]

builds each in Keras and converts it to an int8 DIR/NAME.tflite, as `edgetool convert` would. Needs the extra `convert`.
"""

from __future__ import annotations

# Name -> module and function that build it, the smallest first. Keras is only imported by those modules.
NETWORKS: dict[str, tuple[str, str]] = {
    "resnet8_32": ("resnet", "resnet8_32"),
    "ds_cnn_49": ("keywords", "ds_cnn_49"),
    "mobilenet_025_128": ("mobilenet", "mobilenet_025_128"),
    "person_detect_96": ("mobilenet", "person_detect_96"),
    "mcunet_vww_80": ("inverted", "mcunet_vww_80"),
    "squeezenet_224": ("squeezenet", "squeezenet_224"),
    "unet_128": ("unet", "unet_128"),
    "resnet56_32": ("resnet", "resnet56_32"),
    "shufflenet_v2_224": ("shufflenet", "shufflenet_v2_224"),
    "mobilenet_v3_small_224": ("mobilenet", "mobilenet_v3_small_224"),
    "mobilenet_100_224": ("mobilenet", "mobilenet_100_224"),
    "efficientnet_lite0_224": ("inverted", "efficientnet_lite0_224"),
    "tiny_yolo_224": ("yolo", "tiny_yolo_224"),
    "resnet18_224": ("resnet", "resnet18_224"),
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
