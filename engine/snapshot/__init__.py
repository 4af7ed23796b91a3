"""The state of an engine as a whole: captured for the disk, transferred to another replica, digested."""
