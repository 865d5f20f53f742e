//! Faults on request: at a simulated provider, by the request ([`FaultOrder`]), and on the network
//! between two programs, by the byte ([`FaultProxy`]).

mod order;
mod proxy;

pub(crate) use order::milliseconds;
pub use order::{Fault, FaultOrder, RequestRole};
pub use proxy::{
    ConnectionCut, CutAction, FaultProxy, LinkState, NetworkState, ProxyDirection, ProxyTraffic,
};
