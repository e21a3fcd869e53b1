"""Built-in tasks, one file each; a file registers itself with `@register_task`."""
