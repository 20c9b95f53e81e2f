// The dashboard begins here.
import { render } from 'preact';
import { start } from './live/hub';
import { begin } from './state/who';
import { App } from './views/app';
import { applyTheme } from './state/theme';

applyTheme();
start();
render(<App />, document.getElementById('app')!);
void begin();
