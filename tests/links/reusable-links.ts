/** Reusable links over HTTP: the merchant creates them, strangers read and pay them. */
import { expect } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { openClient } from "../support/http-client.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import type { PayerSide } from "./payer-side.ts";

export const LINKS = "/v1/payment-links";
export const PUBLIC = "/api/v1/public/payment-links";

export const units = (amount: number) => BigInt(Math.round(amount * 1e6));

/** `side`: read when it is needed, since tests start it later. */
export function reusableLinks(side: () => PayerSide) {
  const stranger = () => openClient(side().world.baseUrl);
  const create = (fields: Record<string, unknown>) =>
    side().ann.client.post(LINKS, { amount: 2, description: "Ticket", ...fields });

  async function sign(amount: number, fields: { nonce?: Hex } = {}) {
    const payer = makePayer();
    await fundUsdc(side().rpcUrl, payer.address, 100_000_000n);
    return signPayment(payer, { to: side().wallet, amountUnits: units(amount), ...fields });
  }

  return {
    stranger,
    create,
    sign,
    /** The id of a link without a maximum of payments, unless `fields` say otherwise. */
    async reusable(fields: Record<string, unknown> = {}): Promise<string> {
      const { status, body } = await create({ maxPayments: null, ...fields });
      expect(status).toBe(201);
      return body.id;
    },
    publicData: async (id: string) => (await stranger().get(`${PUBLIC}/${id}/data`)).body,
    pay: (id: string, payment: Awaited<ReturnType<typeof sign>>, headers: Record<string, string> = {}) =>
      stranger().post(`/v1/x402/${id}/pay`, shapeA(payment), headers),
  };
}
