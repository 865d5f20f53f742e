//! The listener for probes and metrics next to a server or worker (`metrics_listen`).

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::CliError;
use mediagate_core::app::App;
use mediagate_http as http;
use mediagate_http::server::{ConnectionLimits, Shutdown};

/// Connections at once.
const CONNECTIONS: usize = 64;

/// Serves probes and metrics until `work` has ended, if the settings name an address for them.
pub(super) async fn serve_probes_beside<T>(
    app: &App,
    work: impl Future<Output = T>,
) -> Result<T, CliError> {
    let Some(address) = app.config.metrics_listen else {
        return Ok(work.await);
    };
    let listener = TcpListener::bind(address).await.map_err(|error| {
        CliError::Failed(format!(
            "metrics_listen: cannot listen on {address}: {error}"
        ))
    })?;
    tracing::info!(%address, "serving probes and metrics");
    let ended = CancellationToken::new();
    let shutdown = Shutdown {
        draining: ended.clone(),
        closing: CancellationToken::new(),
        grace: Duration::from_secs(1),
    };
    let limits = ConnectionLimits::new(CONNECTIONS, CONNECTIONS, None, Vec::new());
    let serve = http::server::serve(listener, http::probes(app), limits, shutdown);
    // Probes are answered to the very end: while a process drains, an orchestrator must see that it
    // lives and is not ready.
    let work = async {
        let done = work.await;
        ended.cancel();
        done
    };
    let (done, ()) = tokio::join!(work, serve);
    Ok(done)
}
