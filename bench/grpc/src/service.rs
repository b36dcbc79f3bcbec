//! The service: a request of any bytes, and a reply of its first 8.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::{Grpc, NamedService};
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// Both ends' windows of HTTP/2.
pub const WINDOW_BYTES: u32 = 4 << 20;
pub const PATH: &str = "/bench.Echo/Call";
const REPLY: usize = 8;

/// What goes there, and what comes back.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Payload {
    #[prost(bytes = "vec", tag = "1")]
    pub body: Vec<u8>,
}

#[derive(Clone)]
struct Echo;

/// Its one method.
struct Call;

impl Service<Request<Payload>> for Call {
    type Response = Response<Payload>;
    type Error = Status;
    type Future = std::future::Ready<Result<Response<Payload>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        let body = request.into_inner().body;
        std::future::ready(Ok(Response::new(Payload {
            body: body[..REPLY.min(body.len())].to_vec(),
        })))
    }
}

impl NamedService for Echo {
    const NAME: &'static str = "bench.Echo";
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut grpc = Grpc::new(ProstCodec::<Payload, Payload>::default());
        Box::pin(async move { Ok(grpc.unary(Call, request).await) })
    }
}

/// Serves it until the process is killed.
pub async fn serve(port: u16) -> Result<(), tonic::transport::Error> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let server = Server::builder().tcp_nodelay(true).initial_stream_window_size(WINDOW_BYTES);
    server.initial_connection_window_size(WINDOW_BYTES).add_service(Echo).serve(address).await
}
