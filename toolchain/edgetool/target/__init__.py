"""What a device is: cores, boards, runtimes, and the strict loading of their profiles."""
