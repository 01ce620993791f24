/**
 * The block after which a link may be paid: the indexer's cursor when it was created. A reorganisation that sets the cursor back lowers it for
 * the links that it can see (db/ledger/orphan-blocks.ts), which are not those whose insert is still uncommitted.
 */
import type { Tx } from "../postgres/client.ts";

/**
 * Call after the commit that inserted the link and before its id is returned: a reorganisation either saw the committed row, or had
 * set the cursor back before this statement reads it. A transfer made later is in a block above the cursor that is read here.
 */
export async function lowerCreatedBlock(tx: Tx, linkId: string): Promise<void> {
  await tx`
    update payment_links link
    set created_block = cursors.number
    from cursors
    where link.id = ${linkId} and cursors.network = link.network and link.created_block > cursors.number`;
}
