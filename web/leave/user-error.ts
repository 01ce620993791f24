/** An error whose message is shown to the person who uses the page. */
export class Fault extends Error {
  readonly code: number | undefined;
  constructor(message: string, options: { cause?: unknown; code?: number } = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.code = options.code;
  }
}

export function explain(error: unknown): string {
  if (error instanceof Fault) return error.message;
  return `Something unexpected happened: ${error instanceof Error ? error.message : String(error)}`;
}
