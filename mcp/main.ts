/**
 * The MCP server over stdio: `SERVICE_URL` and `API_KEY` of the environment. With `PAYER_PRIVATE_KEY` it has pay_link, on `PAY_NETWORK`
 * (default base-sepolia), for at most `PAY_LIMIT` USDC a call and `PAY_SESSION_LIMIT` USDC in all. stdout is the protocol's.
 */
import { readStdioSettings, serveStdio } from "./stdio.ts";

await serveStdio(readStdioSettings(process.env));
