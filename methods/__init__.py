"""Built-in methods, one file each; a file registers itself with `@register_method`."""
