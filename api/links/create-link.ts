/** Creates a link, once per Idempotency-Key. */
import { notFound } from "../../core/domain/errors.ts";
import { newLinkId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { formatUnits } from "../../core/domain/money.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { recordEvents } from "../../db/events/events.ts";
import { runIdempotent } from "../../db/http/idempotency.ts";
import { insertLink } from "../../db/links/links.ts";
import type { ApiDeps } from "../http/deps.ts";
import { getEnabledChain } from "../wallets/enabled-network.ts";
import { presentLink } from "./wire.ts";

export type LinkTerms = {
  userId: string;
  network: NetworkId;
  amountUnits: bigint;
  description: string;
  expiresInHours: number;
};

/** The response body and whether it is a stored one. Throws NOT_FOUND without a wallet on the network, CONFLICT for a key used with another request. */
export async function createLink(
  { sql, chains, config }: Pick<ApiDeps, "sql" | "chains" | "config">,
  terms: LinkTerms,
  idempotencyKey: string | undefined,
): Promise<{ body: unknown; isReplay: boolean }> {
  getEnabledChain({ chains }, terms.network);
  const given =
    idempotencyKey === undefined
      ? undefined
      : { scope: `create_link:${terms.userId}`, key: idempotencyKey, request: terms };
  const { answer, isReplay } = await sql.begin((tx) =>
    runIdempotent(tx, given, async () => {
      const id = newLinkId();
      const link = await insertLink(tx, { id, tag: linkTag(id), ...terms });
      if (!link) throw notFound(`A wallet of yours on ${terms.network}`);
      const data = { amount: formatUnits(link.amountUnits), network: link.network };
      await recordEvents(tx, [
        { userId: link.userId, type: "payment_link.created", subjectId: link.id, data },
      ]);
      return { status: 201, body: presentLink(link, config) };
    }),
  );
  return { body: answer.body, isReplay };
}
