# What the test commands of guides call.

# Leaves no server behind, however the page ends.
trap 'for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done' EXIT

wait_for_port() { until curl -s -o /dev/null "http://127.0.0.1:$1/"; do sleep 0.1; done; }

stop_last() {
  kill "$!"
  wait "$!" 2>/dev/null || true
}

# Buys from the shop that was started last, with a client of x402 version $1.
sell() {
  wait_for_port "$SHOP_PORT"
  test "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$SHOP_PORT/report")" = 402
  bun "$ROOT/tests/guides/buy.ts" "$1" "http://127.0.0.1:$SHOP_PORT/report"
  stop_last
}

# The receiver that was started last verifies a message of the service, and refuses one that nobody signed.
receive() {
  wait_for_port "$PORT"
  test "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$PORT/hooks" -d '{"type":"payment_link.paid"}' \
    -H "webhook-id: evt_1" -H "webhook-timestamp: $(date +%s)" -H "webhook-signature: v1,AAAA")" = 400
  local link
  link=$(curl -sf "$BASE_URL/v1/payment-links" -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" \
    -d '{ "amount": 1, "description": "Hooked" }' | jq -r .id)
  until grep -q "verified .* payment_link.created $link" "$OUTPUT"; do sleep 0.1; done
  stop_last
}
