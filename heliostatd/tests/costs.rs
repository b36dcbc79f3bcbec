//! What requests cost; run by hand with `--release -- --ignored --nocapture`.

mod support;

use std::net::TcpListener;
use std::time::Instant;

use heliostat_abi::name::NetAddress;
use heliostat_abi::record::Request;
use support::*;

fn median_us(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<_> = (0..500)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[test]
#[ignore = "a measurement"]
fn costs_with_few_and_many_sessions() {
    for others in [0, 1500] {
        let limits = "[limits]\nconnects_burst = 100000\nchannels_per_pair = 64\n";
        let daemon = Daemon::with(limits, &[]);
        let _others: Vec<_> = (0..others).map(|_| daemon.session()).collect();
        let (mut server, _) = daemon.session();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = NetAddress::new(socket.local_addr().unwrap());
        let (port, _) = server.listen(&socket);
        let absent = NetAddress::new("127.0.0.1:1".parse().unwrap());
        println!("with {others} other sessions, median of 500:");
        println!("  session  {:8.1} us", median_us(|| drop(daemon.session())));
        let (mut client, _) = daemon.session();
        println!("  no such  {:8.1} us", median_us(|| drop(client.open(absent))));
        let mut clients: Vec<_> = (0..500).map(|_| daemon.session().0).collect();
        let mut next = clients.iter_mut();
        let open = || drop(next.next().map(|client| client.open(address).unwrap()));
        println!("  open     {:8.1} us", median_us(open));
        println!("  attach 0 {:8.1} us", median_us(|| drop(server.ask(&Request::Attach { port }))));
    }
}
