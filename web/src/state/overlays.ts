// What lies over the views when one asks for it: the keys, the palette.
import { signal } from '@preact/signals';

export const helping = signal(false);
export const jumping = signal(false);
