//! The listener for probes and metrics next to a server or worker (`metrics_listen`).

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::CliError;
use mediagate_core::app::App;
use mediagate_http as http;
use mediagate_http::server::{ConnectionLimits, Shutdown};

/// Maximum number of simultaneous connections.
const MAX_CONNECTIONS: usize = 64;

/// Serves probes and metrics until `work` has ended, if the settings name an address for them.
pub(super) async fn with_probes<T>(
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
    let work_ended = CancellationToken::new();
    let shutdown = Shutdown {
        draining: work_ended.clone(),
        closing: CancellationToken::new(),
        grace: Duration::from_secs(1),
    };
    let limits = ConnectionLimits::new(MAX_CONNECTIONS, MAX_CONNECTIONS, None, Vec::new());
    let serve = http::server::serve(listener, http::probes(app), limits, shutdown);
    // Probes are answered to the very end: while a process drains, an orchestrator must see that it
    // is alive but not ready.
    let work = async {
        let output = work.await;
        work_ended.cancel();
        output
    };
    let (output, ()) = tokio::join!(work, serve);
    Ok(output)
}
