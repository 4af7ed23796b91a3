"""Sessions of clients with queues and topics, on the connections of `quorate.client`."""
