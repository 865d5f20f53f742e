//! What goes wrong on order: at a simulated provider, by the request
//! ([`Order`]), and on the network between two programs, by the byte ([`Proxy`]).

mod order;
mod proxy;

pub(crate) use order::milliseconds;
pub use order::{Fault, Order, Role};
pub use proxy::{Cut, Link, Network, Proxy, Side, Then, Traffic};
