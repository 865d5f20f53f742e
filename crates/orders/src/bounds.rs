//! Limits on what the responses to orders may take of this process.

/// Memory for large responses that are being read, in bytes. A response that needs more is read
/// alone.
pub const LARGE_ANSWER_MEMORY: u64 = 512 << 20;
/// Large responses of one provider that are read at once, or wait for memory. The others wait
/// behind these, so providers take turns.
pub const LARGE_ANSWERS_OF_PROVIDER: usize = 2;
