# An agent that counts as far as it is asked to ("Count to 7"), and writes down what it says: each number in FOLDER/begun
# before it is said, and in FOLDER/said afterwards. After the first it waits for the file FOLDER/go.
#
#   sh counting.sh FOLDER [PAUSE]
mkdir -p "$1"
echo $$ >"$1/pid"
while read -r line; do
    id=${line#*'"id":'}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*) result='{"protocolVersion":1}' ;;
    *'"method":"session/new"'*) result='{"sessionId":"s'$$'"}' ;;
    *'"method":"session/prompt"'*)
        last=${line##*Count to }
        last=${last%%[!0-9]*}
        number=1
        while [ "$number" -le "$last" ]; do
            echo "$number" >>"$1/begun"
            echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s'$$'","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$number' "}}}}'
            echo "$number" >>"$1/said"
            while [ ! -e "$1/go" ]; do sleep 0.02; done
            [ -z "$2" ] || sleep "$2"
            number=$((number + 1))
        done
        result='{"stopReason":"end_turn"}'
        ;;
    *) continue ;;
    esac
    echo '{"jsonrpc":"2.0","id":'$id',"result":'$result'}'
done
