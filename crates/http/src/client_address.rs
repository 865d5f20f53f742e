//! The address that a request came from, directly or through trusted proxies.

use std::net::IpAddr;

use axum::http::HeaderMap;
use ipnet::IpNet;

/// The client's address; forwarding headers are used only from these proxies.
pub(super) fn client_address(headers: &HeaderMap, peer: IpAddr, proxies: &[IpNet]) -> IpAddr {
    // Otherwise an IPv4 caller of a dual-stack listener would match no configured IPv4 network.
    let mut address = peer.to_canonical();
    let trusted = |ip: &IpAddr| proxies.iter().any(|network| network.contains(ip));
    // Each proxy appends the address that called it. So the list is read from its end, and only as
    // far as trusted proxies wrote it: what comes before is the caller's own text.
    let forwarded = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok());
    let hops: Vec<&str> = forwarded.flat_map(|value| value.split(',')).collect();
    for hop in hops.iter().rev() {
        if !trusted(&address) {
            break;
        }
        match hop.trim().parse::<IpAddr>() {
            Ok(ip) => address = ip.to_canonical(),
            Err(_) => break,
        }
    }
    address
}
