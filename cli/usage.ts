/** What `help` prints: at most 80 columns. */
export const USAGE = `Usage: usdc <command> [options]

  links create --amount 12.50 --description TEXT    a payment link
      [--network base]       real money; without it test money: base-sepolia
      [--reference ID] [--expires-in HOURS]
      [--email ADDRESS] [--metadata KEY=VALUE]… [--idempotency-key KEY]
  links list [--status STATUS] [--reference ID] [--limit 20]
  links cancel LINK
  pay LINK --test            pay with the local chain's test wallet
  pay LINK --max 5           pay with PAYER_PRIVATE_KEY, at most 5 USDC
      [--amount 2]           for links whose payer chooses the amount
  listen --forward URL       events as they happen, posted to URL and signed
      [--events TYPE,…] [--secret whsec_…] [--cursor CURSOR] [--count N]
  export [--format csv|json|pdf|xlsx|excel_csv] [--out FILE]
      [--profile standard|accounting|books] [--from DATE] [--to DATE]
      [--status STATUS] [--time-zone ZONE]
  doctor                     what is misconfigured, with the fix
  send --prepare --to ADDRESS --amount 5 [--note TEXT] [--network NETWORK]
                             an address that opens the filled-in send page;
                             the money moves when you sign there
  mcp                        the MCP server over stdin and stdout

Everywhere: --json for programs, --url URL instead of SERVICE_URL.
\`--version\` alone says which one this is.

SERVICE_URL        the service; default http://localhost:3000
API_KEY            a key of the page /developers/keys
PAYER_PRIVATE_KEY  for pay without --test; never an argument`;
