"""Training as a service sees it: jobs, their queue, and what a trainer does to them."""
