/**
 * E-mails a user's wallet files after a wallet is set up. At least once: an extra copy is harmless, a missing one is not. Only a
 * permanent refusal ends the attempts; the user can download the file at any time.
 */
import { createHash } from "node:crypto";
import {
  buildWalletFiles,
  formatWalletFile,
  type WalletFile,
  walletFileName,
} from "../../core/domain/wallet-file.ts";
import { renderWalletFileMail } from "../../core/domain/wallet-file-mail.ts";
import type { Log } from "../../core/runtime/log.ts";
import { findUser } from "../../db/accounts/users.ts";
import type { JobPayload } from "../../db/jobs/queue.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { listPasskeysOfFile, listWalletsOfFile } from "../../db/wallets/wallet-files.ts";
import type { Mailer } from "./mailer.ts";

export type WalletFileDeps = { sql: Sql; mailer: Mailer; log: Log; config: { baseUrl: string } };

/** Returns when every file was accepted or permanently refused; throws to be retried. */
export async function sendWalletFile(
  deps: WalletFileDeps,
  { userId, requestId }: JobPayload<"send_wallet_file">,
): Promise<void> {
  const user = await findUser(deps.sql, userId);
  if (!user) return;
  const wallets = await listWalletsOfFile(deps.sql, userId);
  const files = buildWalletFiles(wallets, await listPasskeysOfFile(deps.sql, userId));
  for (const file of files) await sendFile(deps, file, { to: user.email, userId, requestId });
}

async function sendFile(
  { mailer, log, config }: WalletFileDeps,
  file: WalletFile,
  { to, userId, requestId }: { to: string; userId: string; requestId: string | undefined },
): Promise<void> {
  const content = formatWalletFile(file);
  const digest = createHash("sha256").update(`${to}\n${content}`).digest("hex");
  const mail = {
    ...renderWalletFileMail({ address: file.address, baseUrl: config.baseUrl }),
    to,
    // the same for every attempt, so that mailboxes can deduplicate copies; different for different contents
    messageId: `<wallet-${digest.slice(0, 32)}@${new URL(config.baseUrl).hostname}>`,
    attachments: [{ filename: walletFileName(file), content, contentType: "application/json" }],
  };
  const label = { userId, requestId };
  const connection = await mailer.connect();
  try {
    const delivery = await connection.deliver(mail);
    if (delivery.outcome === "accepted") return log.info(label, "wallet file mailed");
    if (delivery.outcome === "refused" && delivery.isPermanent)
      return log.warn(label, `the mail server permanently refused the wallet file: ${delivery.reply}`);
    throw new Error(`the wallet file may not have been mailed: ${delivery.reply}`);
  } finally {
    connection.close();
  }
}
