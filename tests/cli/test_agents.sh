#!/bin/sh
# What agents send to pith serve on a model whose template knows no tools, and on one that does: content that is null,
# tools in words, calls that must be made, whole, cut and as a stream, tools beside a schema, roles.
set -u
. tests/cli/lib.sh
printf "{%% for m in messages %%}{{ '<|im_start|>' + m['role'] + '\\\\n' + m['content'] + '<|im_end|>\\\\n' }}{%% endfor %%}{%% if add_generation_prompt %%}{{ '<|im_start|>assistant\\\\n' }}{%% endif %%}" >"$work/plain.jinja"
printf "{%% if tools %%}{{ tools | tojson }}{%% endif %%}{%% for m in messages %%}{{ m.role }}: {{ m.content }}{%% for t in m.tool_calls or [] %%}<tool_call>{{ t.function | tojson }}</tool_call>{%% endfor %%}{{ '\\\\n' }}{%% endfor %%}assistant:" >"$work/knows.jinja"
. tests/cli/server.sh
for template in plain knows; do
    serve "$probe" --name m --chat-template "$work/$template.jinja"
    python3 tests/cli/agents.py "$url" "$template" >"$work/said" 2>&1 || fail "$template: it ended early: $(tail -n 3 "$work/said")"
    while read -r verdict name; do
        case $verdict in
        ok) pass "$template: $name" ;;
        *) fail "$template: $verdict $name" ;;
        esac
    done <"$work/said"
    ends 0
    count=$(grep -c 'knows no tools' "$work/log")
    wanted=$([ $template = plain ] && echo 1 || echo 0)
    [ "$count" -eq "$wanted" ] && pass "$template: the log says whether tools are described" || fail "$template: $count lines say that tools are described"
done
finish
