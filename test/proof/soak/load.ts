/** What was committed and what the handlers got, for the orders in work alone: the books of a soak must not grow themselves. */

interface Books {
  committed: number;
  /** Sequence of the last event of each subscription. */
  readonly handled: Map<string, number>;
  /** Nothing more is committed. */
  isClosed: boolean;
}

export class Load {
  readonly #subscriptions: readonly string[];
  readonly #orders = new Map<string, Books>();
  committed = 0;
  handled = 0;
  duplicates = 0;
  outOfOrder = 0;

  constructor(subscriptions: readonly string[]) {
    this.#subscriptions = subscriptions;
  }

  /** Orders with something to do. */
  get open(): number {
    return this.#orders.size;
  }

  get missing(): number {
    return [...this.#orders.values()].reduce(
      (sum, { committed, handled }) => sum + this.#subscriptions.reduce((own, name) => own + committed - (handled.get(name) ?? 0), 0),
      0,
    );
  }

  /** Before its first commit: a handler may be faster than the answer. */
  begin(orderId: string): void {
    this.#orders.set(orderId, { committed: 0, handled: new Map(), isClosed: false });
  }

  onCommitted(orderId: string, sequence: number): void {
    const books = this.#orders.get(orderId)!;
    this.committed += sequence - books.committed;
    books.committed = sequence;
  }

  close(orderId: string): void {
    this.#orders.get(orderId)!.isClosed = true;
    this.#forgetIfDone(orderId);
  }

  onHandled(subscription: string, orderId: string, sequence: number): void {
    const books = this.#orders.get(orderId);
    const last = books?.handled.get(subscription) ?? 0;
    if (books === undefined || sequence <= last) {
      this.duplicates += 1;
      return;
    }
    if (sequence !== last + 1) this.outOfOrder += 1;
    books.handled.set(subscription, sequence);
    this.handled += 1;
    this.#forgetIfDone(orderId);
  }

  #forgetIfDone(orderId: string): void {
    const { committed, handled, isClosed } = this.#orders.get(orderId)!;
    if (isClosed && this.#subscriptions.every((name) => handled.get(name) === committed)) this.#orders.delete(orderId);
  }
}
