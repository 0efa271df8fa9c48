"""Where the samples live while a method sweeps over them."""
