// Whether the list of keys and the palette are open. Both lie over the views.
import { signal } from '@preact/signals';

export const helping = signal(false);
export const jumping = signal(false);
