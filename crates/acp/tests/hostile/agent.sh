# An agent that answers with what lies in FOLDER: `initialize`, `session` and `end` are results (`error` is sent in place of
# them where it exists), and `turn` is what it says in a turn.
#
#   sh agent.sh FOLDER
answer() {
    printf '{"jsonrpc":"2.0","id":%s,' "$id"
    if [ -e "$1/error" ]; then
        printf '"error":'
        cat "$1/error"
    else
        printf '"result":'
        cat "$1/$2"
    fi
    printf '}\n'
}
printf 'words on standard error \033]52;c;SE9TVElMRQ==\007\n' >&2
while read -r line; do
    id=${line#*'"id":'}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*) answer "$1" initialize ;;
    *'"method":"session/new"'* | *'"method":"session/load"'*) answer "$1" session ;;
    *'"method":"session/prompt"'*)
        cat "$1/turn"
        answer "$1" end
        ;;
    *'"method":"session/cancel"'*) ;;
    *'"method":'*'"id":'* | *'"id":'*'"method":'*) answer "$1" end ;;
    esac
done
