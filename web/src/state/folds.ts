// Whether tools and thinking are open in conversations: for all of them at once, by a key.
import { signal } from '@preact/signals';

export const openTools = signal(false);
export const openThinking = signal(false);
