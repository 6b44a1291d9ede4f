"""What people see: pages over the same JSON API that programs use."""
