const THOUSANDS = /^[1-9]\d{0,2}(?:,\d{3})+$/;

/** An English text, to be translated. */
export const TWO_READINGS = "The amount can be read in two ways: write it with a point, such as 12.50.";

/** "1,000" is a thousand, or one with a decimal comma. */
export const hasTwoReadings = (amount: string) => THOUSANDS.test(amount.trim());
