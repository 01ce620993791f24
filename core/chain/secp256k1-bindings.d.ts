/** The part of the native libsecp256k1 binding we use; the package ships no types. */
declare module "secp256k1/bindings.js" {
  const bindings: {
    /** Throws when r or s is out of range or no point fits. */
    ecdsaRecover(
      signature: Uint8Array,
      recoveryId: number,
      hash: Uint8Array,
      compressed: boolean,
      output?: Uint8Array,
    ): Uint8Array;
    /** RFC 6979 nonce, low s. */
    ecdsaSign(hash: Uint8Array, privateKey: Uint8Array): { signature: Uint8Array; recid: number };
    publicKeyCreate(privateKey: Uint8Array, compressed: boolean): Uint8Array;
  };
  // biome-ignore lint/style/noDefaultExport: that is how the CommonJS module appears to import().
  export default bindings;
}
