/**
 * The states that were seen, by a hash of 64 bits instead of their text: 20 bytes a state. Two states with the same hash would be taken for one;
 * among 10 million states the chance of that is 1 in 370,000.
 */
const GROWTH = 2;

/** A list of whole numbers below 2^32 that grows. */
export class Numbers {
  #values = new Uint32Array(1024);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(value: number): void {
    if (this.#size === this.#values.length) {
      const grown = new Uint32Array(this.#size * GROWTH);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values[this.#size++] = value;
  }

  at(index: number): number {
    return this.#values[index]!;
  }
}

export class Visited {
  readonly #low = new Numbers();
  readonly #high = new Numbers();
  /** Index of a state + 1; 0 is free. */
  #slots = new Uint32Array(4096);
  #last = -1;

  get size(): number {
    return this.#low.size;
  }

  /** Index of the state that was asked for last. */
  get last(): number {
    return this.#last;
  }

  /** Index of the state if it is new, -1 if it was seen before. */
  add(text: string): number {
    const [low, high] = hash(text);
    if (2 * this.size >= this.#slots.length) this.#grow();
    const slot = this.#slotOf(low, high);
    if (this.#slots[slot] !== 0) {
      this.#last = this.#slots[slot]! - 1;
      return -1;
    }
    this.#last = this.size;
    this.#low.push(low);
    this.#high.push(high);
    this.#slots[slot] = this.size;
    return this.#last;
  }

  /** Is this the state with that index? */
  has(text: string, index: number): boolean {
    const [low, high] = hash(text);
    return this.#low.at(index) === low && this.#high.at(index) === high;
  }

  #slotOf(low: number, high: number): number {
    const mask = this.#slots.length - 1;
    let slot = low & mask;
    for (let index = this.#slots[slot]!; index !== 0; index = this.#slots[slot]!) {
      if (this.#low.at(index - 1) === low && this.#high.at(index - 1) === high) return slot;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  #grow(): void {
    this.#slots = new Uint32Array(this.#slots.length * GROWTH);
    for (let index = 0; index < this.size; index++) {
      this.#slots[this.#slotOf(this.#low.at(index), this.#high.at(index))] = index + 1;
    }
  }
}

/** Two mixes of 32 bits that share no constant. */
function hash(text: string): readonly [number, number] {
  let low = 0x811c9dc5;
  let high = 0x9747b28c;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    low = Math.imul(low ^ code, 0x01000193);
    low ^= low >>> 15;
    high = Math.imul(high ^ code, 0x5bd1e995) + 0x2545f491;
    high ^= high >>> 13;
  }
  low = Math.imul(low ^ (low >>> 16), 0x85ebca6b);
  high = Math.imul(high ^ (high >>> 16), 0xc2b2ae35);
  return [(low ^ (low >>> 13)) >>> 0, (high ^ (high >>> 15)) >>> 0];
}
