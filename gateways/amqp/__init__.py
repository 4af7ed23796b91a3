"""AMQP 1.0 for foreign clients, on the engine of Qpid Proton."""
