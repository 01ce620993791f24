/** The official MCP client on both transports, as an agent's program starts it. */
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { createMcpServer } from "../../mcp/server.ts";

export type ToolAnswer = {
  isError: boolean;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: what a tool answers is what its test asserts
  value: any;
};
export type McpClient = {
  client: Client;
  /** Calls a tool; `onProgress` gets the messages of its progress notifications. */
  call: (
    name: string,
    args?: Record<string, unknown>,
    options?: { onProgress?: (message: string | undefined) => void; signal?: AbortSignal },
  ) => Promise<ToolAnswer>;
  close: () => Promise<void>;
};

const CALL_TIMEOUT_MS = 110_000;
const ROOT = join(import.meta.dir, "../..");

export async function connectHttp(baseUrl: string, apiKey: string | undefined): Promise<McpClient> {
  const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  const transport = new StreamableHTTPClientTransport(new URL("/mcp", baseUrl), { requestInit: { headers } });
  return connect(transport);
}

/** Starts mcp/main.ts as a process of its own. */
export async function connectStdio(env: Record<string, string>): Promise<McpClient> {
  const args = [join(ROOT, "mcp/main.ts")];
  const own = { PATH: process.env.PATH ?? "" };
  return connect(
    new StdioClientTransport({ command: process.execPath, args, env: { ...own, ...env }, cwd: ROOT }),
  );
}

/** Serves the tools in this process, with a payer whose network a test chooses. */
export async function connectInMemory(options: Parameters<typeof createMcpServer>[0]): Promise<McpClient> {
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  await createMcpServer(options).connect(theirs);
  return connect(ours);
}

async function connect(
  transport: StdioClientTransport | StreamableHTTPClientTransport | InMemoryTransport,
): Promise<McpClient> {
  const client = new Client({ name: "test", version: "1.0.0" });
  // the class declares optional callbacks that the interface types exactly
  await client.connect(transport as Parameters<Client["connect"]>[0]);
  return {
    client,
    async call(name, args = {}, { onProgress, signal } = {}) {
      const result = (await client.callTool({ name, arguments: args }, undefined, {
        timeout: CALL_TIMEOUT_MS,
        ...(signal ? { signal } : {}),
        ...(onProgress
          ? { onprogress: ({ message }: { message?: string | undefined }) => onProgress(message) }
          : {}),
      })) as CallToolResult;
      const [first] = result.content;
      const text = first?.type === "text" ? first.text : "";
      return { isError: result.isError === true, text, value: result.structuredContent };
    },
    close: () => client.close(),
  };
}
