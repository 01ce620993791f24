/** A wall clock that is set back by an hour, as a host's is when its time is corrected. Timers and `performance.now()` go on. */

const HOUR_MS = 3_600_000;

/** Sets this process's clock back. Returns a function that undoes it. */
export function setBackClock(): () => void {
  const now = Date.now;
  Date.now = () => now() - HOUR_MS;
  return () => {
    Date.now = now;
  };
}
