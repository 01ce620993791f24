/** A wallet for the local chain: announces itself like an extension (EIP-6963) and lets the local node sign. Never part of other pages. */

type Answer = { result?: unknown; error?: { code: number; message: string } };

const provider = {
  request: async ({ method, params = [] }: { method: string; params?: unknown[] }) => {
    const response = await fetch("/v1/test/wallet", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ method, params, linkId: location.pathname.split("/").pop() }),
    });
    const { result, error } = (await response.json()) as Answer;
    if (error) throw Object.assign(new Error(error.message), { code: error.code });
    return result;
  },
};

const info = {
  uuid: crypto.randomUUID(),
  name: "Test wallet",
  rdns: "localhost.test-wallet",
  icon: "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Crect width='24' height='24' rx='6' fill='%23fff'/%3E%3Cpath d='M6 8h12v9H6zM15 12h3' fill='none' stroke='%230b50e6' stroke-width='2'/%3E%3C/svg%3E",
};

const announce = () =>
  dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail: Object.freeze({ info, provider }) }));
addEventListener("eip6963:requestProvider", announce);
announce();
