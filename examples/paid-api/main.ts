/** An HTTP API whose report costs 0.01 USDC, sold through the facilitator with the stock middleware. */
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import { declareDiscoveryExtension } from "@x402/extensions/bazaar";
import { declarePaymentIdentifierExtension } from "@x402/extensions/payment-identifier";
import express from "express";

const { FACILITATOR_URL, FACILITATOR_KEY, PAY_TO, PORT = "4021", NETWORK = "eip155:84532" } = process.env;
if (!FACILITATOR_URL || !FACILITATOR_KEY || !PAY_TO)
  throw new Error("FACILITATOR_URL, FACILITATOR_KEY and PAY_TO must be set; see examples/README.md");

// the middleware does not store answers by the identifier that a payer may choose
const headers = { authorization: `Bearer ${FACILITATOR_KEY}`, prefer: "no-repeat" };
const facilitator = new HTTPFacilitatorClient({
  url: FACILITATOR_URL,
  createAuthHeaders: async () => ({ verify: headers, settle: headers, supported: headers }),
});
const network = NETWORK as `${string}:${string}`;
const server = new x402ResourceServer(facilitator).register(network, new ExactEvmScheme());

const example = { city: "Lisbon", outlook: "sunny" };
const routes = {
  "GET /report": {
    accepts: { scheme: "exact", price: "$0.01", network, payTo: PAY_TO },
    description: "Tomorrow's weather",
    mimeType: "application/json",
    extensions: {
      ...declareDiscoveryExtension({ output: { example } }),
      // a client that names its payment gets the success again after a lost answer
      "payment-identifier": declarePaymentIdentifierExtension(),
    },
  },
};

const app = express();
app.use(paymentMiddleware(routes, server));
app.get("/report", (_request, response) => {
  response.json(example);
});
app.listen(Number(PORT), "127.0.0.1", () => console.log(`GET http://127.0.0.1:${PORT}/report costs $0.01`));
