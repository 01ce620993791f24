/**
 * For a shop's page: `<script src="…/embed.js"></script><usdc-payment link="link_…"></usdc-payment>`. The element contains the payment page
 * in a frame, or with mode="popup" a button that opens it in a window, and fires `payment-status` and `payment-paid`. Its events are for
 * display only: a shop ships after a webhook, or after verifying the signed query.
 */
(() => {
  const service = new URL((document.currentScript as HTMLScriptElement).src).origin;
  const LINK_ID = /^link_[\w-]{22}$/;
  const HEIGHT_MAX_PX = 4_000;

  class UsdcPayment extends HTMLElement {
    static observedAttributes = ["link", "mode"];
    #page: Window | null = null;
    #frame: HTMLIFrameElement | null = null;
    #hear = (event: MessageEvent) => this.#onMessage(event);

    connectedCallback() {
      addEventListener("message", this.#hear);
      this.#draw();
    }

    disconnectedCallback() {
      removeEventListener("message", this.#hear);
      this.#page = null;
    }

    attributeChangedCallback() {
      if (this.isConnected) this.#draw();
    }

    /** Opens the payment page in a window; call it from a click. */
    open() {
      const link = this.getAttribute("link") ?? "";
      if (LINK_ID.test(link)) this.#page = window.open(this.#url(link), link, "popup,width=480,height=800");
    }

    #url(link: string) {
      return `${service}/pay/${link}?embed=${encodeURIComponent(location.origin)}`;
    }

    #draw() {
      const link = this.getAttribute("link") ?? "";
      this.replaceChildren();
      this.#frame = null;
      this.#page = null;
      if (!LINK_ID.test(link)) return;
      if (this.getAttribute("mode") === "popup") {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = this.getAttribute("label") ?? "Pay with USDC";
        button.onclick = () => this.open();
        this.append(button);
        return;
      }
      const frame = document.createElement("iframe");
      frame.src = this.#url(link);
      frame.title = this.getAttribute("label") ?? "Pay with USDC";
      frame.allow = "clipboard-write";
      frame.style.cssText = "display:block;width:100%;height:640px;border:0";
      this.append(frame);
      this.#frame = frame;
    }

    /** Only messages from the service's origin and from the page in this element. */
    #onMessage({ origin, source, data }: MessageEvent) {
      const page = this.#frame?.contentWindow ?? this.#page;
      if (origin !== service || !page || source !== page || data?.type !== "usdc-payment") return;
      if (typeof data.height === "number" && this.#frame)
        this.#frame.style.height = `${Math.min(Math.ceil(data.height), HEIGHT_MAX_PX)}px`;
      if (typeof data.status !== "string") return;
      const { linkId, status, transactionHash } = data;
      const detail = { linkId, status, transactionHash };
      this.dispatchEvent(new CustomEvent("payment-status", { detail, bubbles: true }));
      if (status === "PAID") this.dispatchEvent(new CustomEvent("payment-paid", { detail, bubbles: true }));
    }
  }
  customElements.define("usdc-payment", UsdcPayment);
})();
