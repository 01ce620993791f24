/** Opens a port. Errors name the variables that configure it. */

export class ListenError extends Error {}

/** The server that `listen` returns; throws ListenError with a sentence when the address cannot be used. */
export function listenAt<Server>(
  { names, host, port }: { names: string; host: string; port: number },
  listen: () => Server,
): Server {
  try {
    return listen();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ListenError(`cannot listen at ${host}:${port} (${names}): ${reason}`, { cause });
  }
}
