"""PostgreSQL's wire protocol, without sockets: messages, login, and the relay's state machine."""
