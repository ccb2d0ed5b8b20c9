"""A group gets messages, keeps them under leases, and settles them."""
