package dev.evenkeel.partitioner;

/** A record of the routes topic is no table that can be right; the message says why. */
final class InvalidTableException extends Exception {
    private static final long serialVersionUID = 1L;

    InvalidTableException(String message) {
        super(message);
    }
}
