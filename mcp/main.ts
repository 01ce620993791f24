/**
 * The MCP server over stdio: `SERVICE_URL` and `API_KEY` of the environment. With `PAYER_PRIVATE_KEY` it has pay_link, on `PAY_NETWORK`
 * (default base-sepolia), for at most `PAY_LIMIT` USDC a call and `PAY_SESSION_LIMIT` USDC in all. stdout is the protocol's.
 */
import { readStdioSettings, type StdioSettings, serveStdio } from "./stdio.ts";

await serveStdio(readOrExit());

function readOrExit(): StdioSettings {
  try {
    return readStdioSettings(process.env);
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    return process.exit(78); // EX_CONFIG of sysexits.h
  }
}
