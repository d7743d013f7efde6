// Rates are what changed between two statuses, per second. Counters that went back (the process
// was restarted) start over.

// Rate turns a counter into its increase per second.
export class Rate {
  // add notes the counter at a time in milliseconds, and returns the rate since the last note, or
  // undefined for the first.
  add(at, total) {
    const last = this.last;
    this.last = { at, total };
    if (!last || at <= last.at || total < last.total) return undefined;
    return ((total - last.total) / (at - last.at)) * 1000;
  }
}

// Mean turns a count and a mean of everything so far into the mean of what was added.
export class Mean {
  add(count, mean) {
    const last = this.last;
    this.last = { count, sum: count * mean };
    if (!last || count <= last.count) return undefined;
    return Math.max(0, (this.last.sum - last.sum) / (count - last.count));
  }
}
