// A fetch that keeps count of what the package asks, and lets a test wait for it.

type Seen = { method: string; path: string; status: number | undefined };

export class Calls {
  readonly seen: Seen[] = [];
  /** Of the last answer that was about a task. */
  taskId = "";
  private waiting: (() => void)[] = [];

  readonly fetch: typeof fetch = async (input, init) => {
    const seen: Seen = { method: init?.method ?? "GET", path: new URL(String(input)).pathname, status: undefined };
    try {
      const response = await fetch(input, init);
      seen.status = response.status;
      this.taskId = response.headers.get("x-task-id") ?? this.taskId;
      return response;
    } finally {
      this.seen.push(seen);
      for (const wake of this.waiting.splice(0)) wake();
    }
  };

  get statuses(): (number | undefined)[] {
    return this.seen.map(({ status }) => status);
  }

  /** Waits until such a call has been made. */
  async until(wanted: (seen: Seen) => boolean): Promise<void> {
    while (!this.seen.some(wanted)) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }
}
