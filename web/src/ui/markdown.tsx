// Markdown as people and models write it. What marked makes passes DOMPurify before it becomes HTML (Trusted Types);
// images of other places become links, since the page loads nothing from elsewhere.
import DOMPurify from 'dompurify';
import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import { Marked } from 'marked';
import { useMemo } from 'preact/hooks';

for (const [name, language] of Object.entries({ bash, json, python, sql, typescript }))
  hljs.registerLanguage(name, language);
hljs.registerAliases(['sh', 'shell', 'console'], { languageName: 'bash' });
hljs.registerAliases(['js', 'ts', 'javascript', 'tsx', 'jsx'], { languageName: 'typescript' });

const escape = (raw: string) => raw.replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
const marked = new Marked(
  { gfm: true, breaks: true },
  {
    renderer: {
      code({ text, lang = '' }) {
        const language = lang.split(/\s/)[0]!.toLowerCase();
        const known = hljs.getLanguage(language) && text.length < 20_000;
        return `<pre><code>${known ? hljs.highlight(text, { language, ignoreIllegals: true }).value : escape(text)}</code></pre>`;
      },
      html({ text }) {
        return escape(text);
      }, // people's HTML is shown as they wrote it
      image({ href, text }) {
        return `<a href="${escape(href)}">[image] ${escape(text || href)}</a>`;
      },
    },
  },
);
DOMPurify.addHook('afterSanitizeAttributes', node => {
  if (node.tagName !== 'A') return;
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', 'noopener noreferrer nofollow');
});
const RULES = {
  ALLOWED_TAGS: [
    'p',
    'br',
    'strong',
    'em',
    'del',
    'a',
    'code',
    'pre',
    'span',
    'ul',
    'ol',
    'li',
    'blockquote',
    'h1',
    'h2',
    'h3',
    'h4',
    'h5',
    'h6',
    'hr',
    'table',
    'thead',
    'tbody',
    'tr',
    'th',
    'td',
    'input',
  ],
  ALLOWED_ATTR: ['href', 'class', 'type', 'checked', 'disabled', 'align'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  RETURN_TRUSTED_TYPE: true,
};

const kept = new Map<string, unknown>(); // what was drawn last: scrolling back parses nothing again
function render(source: string): unknown {
  const known = kept.get(source);
  if (known) return known;
  const html = DOMPurify.sanitize(marked.parse(source, { async: false }), RULES);
  if (kept.size > 500) kept.delete(kept.keys().next().value!);
  if (source.length < 10_000) kept.set(source, html);
  return html;
}

const LONG = 20_000;
export function Markdown({ source, whole }: { source: string; whole?: boolean }) {
  const shown = whole || source.length <= LONG ? source : source.slice(0, LONG) + '…';
  const html = useMemo(() => {
    try {
      return render(shown);
    } catch {
      return null;
    }
  }, [shown]);
  if (html === null)
    return (
      <p class="md" dir="auto">
        {shown}
      </p>
    );
  return <div class="md" dir="auto" dangerouslySetInnerHTML={{ __html: html as string }} />;
}
