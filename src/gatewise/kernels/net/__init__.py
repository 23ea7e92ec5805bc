"""The compiled loops over finite sets of gates: product nets and explicit lists."""
