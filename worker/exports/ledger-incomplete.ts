/** A file that must be complete cannot be created yet: the ledger of its period is not, after a reorganisation or during a rebuild. */
export class LedgerIncompleteError extends Error {
  override readonly name = "LedgerIncompleteError";

  constructor() {
    super("the ledger of this period is not complete");
  }
}
